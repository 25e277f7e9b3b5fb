package topology

import "time"

// known are the regions in the thesis' deployments (T 3.6.1), in the order of rtt.
var known = [...]Region{
	"us-west-2", "us-west-1", "us-east-1", "eu-west-1", "eu-central-1",
	"ap-northeast-1", "ap-southeast-1", "ap-southeast-2", "sa-east-1",
}

// rtt has typical round trips between known regions, in milliseconds: rtt[i][j] is between known[i] and
// known[i+1+j].
var rtt = [...][]int{
	{20, 70, 140, 158, 98, 165, 140, 180},
	{62, 138, 150, 108, 170, 138, 175},
	{80, 92, 160, 220, 200, 115},
	{25, 205, 175, 255, 178},
	{225, 160, 250, 205},
	{70, 105, 260},
	{92, 330},
	{310},
}

// elsewhere is the assumed one-way delay to a region that is not in the table.
const elsewhere = 50 * time.Millisecond

// Delay returns the typical one-way delay between two regions: 0 within a region, and elsewhere if a region
// is not in the table.
func Delay(a, b Region) time.Duration {
	if a == b {
		return 0
	}
	i, j := place(a), place(b)
	if i < 0 || j < 0 {
		return elsewhere
	}
	return time.Duration(rtt[min(i, j)][max(i, j)-min(i, j)-1]) * time.Millisecond / 2
}

func place(r Region) int {
	for i, k := range known {
		if k == r {
			return i
		}
	}
	return -1
}
