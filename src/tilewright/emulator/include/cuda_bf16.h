#pragma once

#include "half.cuh"
