#pragma once

#include "ptx/half.cuh"
