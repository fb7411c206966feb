"""References in NumPy for the kernels in this folder."""

import numpy as np

ELEMENTS = 128
"""Elements of a block of the reduction."""


def reduction(values):
    whole = -(-values.size // ELEMENTS) * ELEMENTS
    return np.pad(values, (0, whole - values.size)).reshape(-1, ELEMENTS).sum(axis=1)


def transpose(a):
    return a.T


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def convolution(signal, weights, result, scale):
    return result + scale * np.convolve(signal, weights, mode="same")


def histogram(values):
    return {"counts": np.bincount(values, minlength=16)}


def grouped_product(a0, a1, b):
    factors = [one.astype("f4") for one in (a0, a1, b)]
    return {"c0": factors[0] @ factors[2][0].T, "c1": factors[1] @ factors[2][1].T}
