#include <cooperative_groups.h>
#include <helper_string.h>
#include <helper_image.h>

namespace cg = cooperative_groups;

#define TILE_DIM 16
#define BLOCK_ROWS 4

int MUL_FACTOR = TILE_DIM;
#define FLOOR(a, b) (a - (a % b))

__global__ void transposeNaive(float* odata, float* idata, int width, int height) {
    int xIndex = blockIdx.x * TILE_DIM + threadIdx.x;
    int yIndex = blockIdx.y * TILE_DIM + threadIdx.y;
    int index_in = xIndex + width * yIndex;
    int index_out = yIndex + height * xIndex;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS) odata[index_out + i] = idata[index_in + i * width];
}

__global__ void transposeNoBankConflicts(float* odata, float* idata, int width, int height) {
    cg::thread_block cta = cg::this_thread_block();
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int xIndex = blockIdx.x * TILE_DIM + threadIdx.x;
    int yIndex = blockIdx.y * TILE_DIM + threadIdx.y;
    int index_in = xIndex + yIndex * width;
    xIndex = blockIdx.y * TILE_DIM + threadIdx.x;
    yIndex = blockIdx.x * TILE_DIM + threadIdx.y;
    int index_out = xIndex + yIndex * height;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS) tile[threadIdx.y + i][threadIdx.x] = idata[index_in + i * width];
    cg::sync(cta);
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS) odata[index_out + i * height] = tile[threadIdx.x][threadIdx.y + i];
}

void computeTransposeGold(float* gold, float* idata, const int size_x, const int size_y) {
    for (int y = 0; y < size_y; ++y)
        for (int x = 0; x < size_x; ++x) gold[(x * size_y) + y] = idata[(y * size_x) + x];
}

int main(int argc, char** argv) {
    void (*kernel)(float*, float*, int, int) = &transposeNaive;
    dim3 grid(1024 / TILE_DIM, 1024 / TILE_DIM), threads(TILE_DIM, BLOCK_ROWS);
    kernel<<<grid, threads>>>(nullptr, nullptr, 1024, 1024);
    return 0;
}
