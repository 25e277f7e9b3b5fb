package primcast

import "flag"

// seedCount is how many seeds each shape of the network runs.
var seedCount = flag.Int("seeds", 2, "seeds for each shape")
