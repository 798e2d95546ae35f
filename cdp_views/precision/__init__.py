"""Arrays in, arrays out: roots, integrals, convolutions and samplers. Imports no JAX by itself."""
