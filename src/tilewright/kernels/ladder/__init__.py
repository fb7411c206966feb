"""The course: one idea a rung, each a `.cu` file and the Kernel that declares it."""
