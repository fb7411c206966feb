#pragma once

#include "wmma.cuh"
