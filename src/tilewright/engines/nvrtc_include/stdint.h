#include "cstdint"
