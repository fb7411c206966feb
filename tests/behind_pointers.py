"""Sources whose tensor maps are parameters, with the maps behind a pointer instead."""

NAMES = ("map_a", "map_b", "map_c")
"""The parameters of own_kernels/tile_product.cu, in their order."""


def behind_one_pointer(text):
    """A product's three maps lie one after the other; the source has a pointer to the first."""
    for i, name in enumerate(NAMES):
        text = text.replace(f"&{name}", f"&maps[{i}]").replace(f"{name}:", f"maps[{i}]:")
    begin, end = text.index("const __grid_constant__"), text.index(", int M, int N")
    return f"{text[:begin]}const CUtensorMap* __restrict__ maps{text[end:]}"
