package primcast

import "flag"

// seedCount is how many seeds each shape of the network runs.
var seedCount = flag.Int("seeds", 30, "seeds for each shape")
