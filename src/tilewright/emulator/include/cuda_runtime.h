// The language is there without it: runtime/simt.hpp.
#pragma once
