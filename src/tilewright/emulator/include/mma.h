#pragma once

#include "ptx/wmma.cuh"
