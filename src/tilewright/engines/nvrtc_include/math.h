#include "cmath"
