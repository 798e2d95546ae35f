"""What mechanisms are called in sentences and pictures: families by name, views as views."""

_FAMILIES = {
    "normal": "Normal",
    "laplace": "Laplace",
    "discrete-normal": "discrete Normal",
    "discrete-laplace": "discrete Laplace",
}
_VIEWS = ("conditioned", "imaged", "max-entropy")


def noise_name(noise: str) -> str:
    """A family of noise as it stands in a sentence; one that is not known, as it is.

    Example:
        >>> noise_name("discrete-laplace"), noise_name("mine")
        ('discrete Laplace', 'mine')
    """
    return _FAMILIES.get(noise, noise)


def mechanism_name(view: str, noise: str) -> str:
    """A mechanism in words, the same in every picture and table that has both of its parts.

    Example:
        >>> mechanism_name("conditioned", "laplace"), mechanism_name("raked", "normal")
        ('conditioned view, Laplace noise', 'raked, Normal noise')
    """
    return f"{view}{' view' * (view in _VIEWS)}, {noise_name(noise)} noise"
