// Rasterization: in which order blocks take the tiles of C.
#pragma once

struct TilePlace {
    int row, col;  // counted in tiles
};

// Where a tile stands. Tiles are counted in bands of RASTER rows, within a band column by column: blocks that run at one
// time then cover a part of C that is nearer to a square, and find more of what they read in the L2 cache. With
// RASTER = 1 that is row by row.
__device__ __forceinline__ TilePlace place_of(int tile, int tiles_m, int tiles_n) {
    if (RASTER == 1) return {tile / tiles_n, tile % tiles_n};
    const int band = tile / (RASTER * tiles_n) * RASTER;
    const int rows = min(RASTER, tiles_m - band);  // the last band may have fewer
    const int in_band = tile - band * tiles_n;
    return {band + in_band % rows, in_band / rows};
}
