// Biases: which of a result's rows or columns the values of the bias belong to.
#pragma once

struct no_bias {
    static constexpr bool EXISTS = false;
    static constexpr bool OF_COLUMNS = false;
    static constexpr bool OF_ROWS = false;
};

// A row of n values, one a column of the result.
struct row_bias {
    static constexpr bool EXISTS = true;
    static constexpr bool OF_COLUMNS = true;
    static constexpr bool OF_ROWS = false;
};

// A column of m values, one a row of the result.
struct column_bias {
    static constexpr bool EXISTS = true;
    static constexpr bool OF_COLUMNS = false;
    static constexpr bool OF_ROWS = true;
};
