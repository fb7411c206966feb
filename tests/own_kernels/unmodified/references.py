"""References in NumPy for the kernels in this folder that are no matrix products."""

import numpy as np


def transpose(idata):
    return idata.T


def sums(g_idata):
    """Sum of each block's 128 elements."""
    return g_idata.reshape(-1, 128).sum(axis=1)


def total(g_idata):
    return g_idata.sum(keepdims=True)


def vector_add(A, B):
    return A + B


def softmax(input):
    powers = np.exp(input - input.max())
    return powers / powers.sum()


def histogram(input, num_bins):
    return {"histogram": np.bincount(input, minlength=num_bins)}


def convolution(input, kernel):
    return np.correlate(input, kernel, mode="valid")


def blur(input, c_weights):
    return np.convolve(input.astype(np.float64), c_weights[::-1].astype(np.float64), mode="same")
