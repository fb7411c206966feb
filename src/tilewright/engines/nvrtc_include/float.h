#include "cfloat"
