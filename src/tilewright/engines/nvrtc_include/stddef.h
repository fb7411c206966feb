#include "cstddef"
