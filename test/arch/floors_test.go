package arch

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// support is the floor of packages that only tests import.
const support = -1

// floors has the floor of each package. A pattern ends in "/...".
var floors = map[string]int{
	"pkg/multicast":      0,
	"pkg/fabric":         0,
	"pkg/fabric/lane":    1,
	"pkg/fabric/ring":    4,
	"pkg/batching":       0,
	"internal/posix":     0,
	"internal/invariant": 0,
	"internal/digest":    0,
	"internal/varint":    0,
	"internal/heap":      0,

	"pkg/multicast/primcast": 1,
	"pkg/multicast/skeen":    1,
	"pkg/multicast/check":    1,
	"pkg/multicast/tram":     2,
	"pkg/heron":              2,
	"internal/topology":      1,
	"internal/meta":          1,
	"internal/block/ring":    1,

	"bench/baseline/links":  1,
	"bench/baseline/queues": 1,
	"bench/baseline/routes": 1,
	"bench/baseline/paxos":  2,

	"bench/baseline/...": 3,
	"bench/direct":       1,
	"bench/heronfs":      7,

	"internal/ask":            2,
	"internal/order":          2,
	"internal/order/onesided": 3,
	"internal/delegation":     2,

	"internal/turn":    3,
	"internal/session": 3,

	"internal/client/lease":    3,
	"internal/client/delegate": 3,
	"internal/client/journal":  3,

	"internal/cross": 4,
	"internal/reads": 4,

	"internal/replica": 6,

	"pkg/fabric/internal/remote": 4,
	"pkg/fabric/shm":             6,
	"pkg/fabric/verbs":           6,
	"pkg/rdmaconn":               7,
	"pkg/shmconn":                5,

	"pkg/fabric/soft":      6,
	"pkg/fabric/fabricsim": 4,

	"internal/pause":         4,
	"internal/reason":        4,
	"internal/recent":        4,
	"internal/progress":      4,
	"internal/client/notice": 4,
	"internal/trace":         4,
	"internal/durable":       4,
	"internal/wire":          4,
	"internal/kv":            5,
	"internal/wal":           5,
	"internal/metrics":       4,
	"internal/identity":      5,
	"internal/command":       4,
	"internal/buffers":       4,
	"internal/block":         4,
	"internal/block/segfile": 4,

	"internal/registry":        6,
	"internal/transport":       6,
	"internal/client/route":    6,
	"internal/block/disk":      6,
	"internal/block/diskcache": 6,
	"internal/block/region":    6,

	"internal/block/objects":    7,
	"internal/mount/mountpoint": 6,
	"internal/mount/behind":     6,
	"internal/mount/serve":      7,

	"internal/driver":    7,
	"internal/client":    7,
	"internal/fsck":      7,
	"internal/collector": 7,

	"internal/backup": 8,
	"internal/server": 8,
	"internal/mount":  8,
	"internal/mover":  8,
	"internal/bench":  8,
	"bench/figures":   8,
	"bench/results":   8,
	"bench/virtual":   8,

	"internal/bench/compare": 9,

	"internal/attach":  8,
	"internal/daemon":  9,
	"internal/salvage": 10,
	"internal/dev":     10,
	"bench/batching":   9,
	"bench/carrier":    9,
	"bench/micro":      9,
	"bench/geo":        9,
	"bench/ordering":   9,
	"bench/packing":    9,
	"bench/process":    9,
	"bench/onesided":   10,
	"bench/reproduce":  11,
	"bench/memory":     9,
	"bench/hops":       10,
	"bench/replicas":   10,
	"bench/growth":     11,

	"internal/cli":     11,
	"bench/lab":        12,
	"cmd/globalfs":     12,
	"cmd/globalfs-lab": 13,

	"test/wan":     7, // the laboratory uses both, too
	"test/cluster": 8,

	"bench/baseline/baselinetest":        support,
	"internal/sim":                       support,
	"internal/meta/metatest":             support,
	"internal/block/blocktest":           support,
	"internal/block/objects/objectstest": support,
	"internal/client/clienttest":         support,
	"internal/registry/registrytest":     support,
	"internal/transport/transporttest":   support,
	"pkg/multicast/multicasttest":        support,
	"pkg/fabric/fabrictest":              support,
	"test/...":                           support,
	"bench/...":                          support,
}

// highestCore is the highest floor on which all packages are pure. Package replica is a core above it.
const highestCore = 3

// highCores are the pure packages above highestCore.
var highCores = []string{"internal/cross", "internal/reads", "internal/replica"}

// isCore reports whether a package must be pure.
func isCore(rel string) bool {
	floor, listed := floorOf(rel)
	return slices.Contains(highCores, rel) || listed && floor != support && floor <= highestCore
}

// owners has the packages that may import an external module. With one importer, a library can be replaced by
// a change of one package.
var owners = map[string][]string{
	"github.com/anishathalye/porcupine":   {"test/linear"},
	"github.com/hanwen/go-fuse/v2":        {"internal/mount", "internal/mount/serve", "test/power/lossy"},
	"github.com/syndtr/goleveldb":         {"internal/kv"},
	"github.com/minio/minio-go/v7":        {"internal/block/objects"},
	"github.com/google/pprof":             {"bench/geo"},
	"github.com/vbauerster/mpb/v8":        {"internal/cli"},
	"github.com/coreos/go-systemd/v22":    {"internal/cli"},
	"github.com/dustin/go-humanize":       {"internal/cli"},
	"github.com/spf13/cobra":              {"internal/cli", "internal/command", "bench/lab"},
	"github.com/spf13/pflag":              {"internal/cli", "internal/command"},
	"go.yaml.in/yaml/v3":                  {"internal/cli", "internal/topology"},
	"go.etcd.io/etcd":                     {"internal/registry"},
	"go.uber.org/zap":                     {"internal/registry"},
	"google.golang.org/grpc":              {"internal/registry", "internal/transport", "internal/wire"},
	"google.golang.org/protobuf":          {"internal/transport", "internal/wire"},
	"golang.org/x/sync":                   {"internal/backup", "internal/block/region", "internal/cli", "internal/client", "internal/client/route", "internal/collector", "internal/dev", "internal/fsck", "internal/mount/behind", "internal/mover", "internal/server", "internal/transport"},
	"golang.org/x/sys":                    {"bench/ordering", "internal/bench", "internal/bench/compare", "internal/block/disk", "internal/block/diskcache", "internal/cli", "internal/dev", "internal/durable", "internal/mount", "internal/mount/mountpoint", "internal/mount/serve", "internal/wal", "pkg/fabric/ring", "pkg/fabric/shm", "pkg/shmconn", "test/cluster", "test/wan"},
	"golang.org/x/time":                   {"internal/block/disk", "internal/block/region", "internal/daemon", "internal/server", "internal/transport"},
	"gonum.org/v1/plot":                   {"bench/figures"},
	"github.com/prometheus/client_golang": {"internal/metrics"},
	"github.com/stretchr/testify":         {}, // tests
}

func floorOf(rel string) (floor int, listed bool) {
	if f, ok := floors[rel]; ok {
		return f, true
	}
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		if f, ok := floors[dir+"/..."]; ok {
			return f, true
		}
	}
	return 0, false
}

func TestEveryPackageStandsOnAFloor(t *testing.T) {
	for _, p := range packages(t) {
		assert.Nil(t, p.Error, "%s", p.rel)
		_, ok := floorOf(p.rel)
		assert.True(t, ok, "%s: not in floors (floors_test.go): say where it stands", p.rel)
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		floor, _ := floorOf(p.rel)
		for _, imported := range p.Imports {
			rel, ok := inModule(imported)
			if !ok {
				continue
			}
			other, _ := floorOf(rel)
			switch {
			case floor == support:
			case other == support:
				assert.Fail(t, "only tests may import it", "%s imports %s", p.rel, rel)
			default:
				assert.Less(t, other, floor, "%s (floor %d) imports %s (floor %d)", p.rel, floor, rel, other)
			}
		}
	}
}

// The laboratory (bench, test and cmd/globalfs-lab) imports the product, and the product does not import the
// laboratory. Tests, and packages that only tests import, may import it.
func TestProductKnowsNoLaboratory(t *testing.T) {
	for _, p := range packages(t) {
		if floor, _ := floorOf(p.rel); floor == support || inLaboratory(p.rel) {
			continue
		}
		for _, imported := range p.Imports {
			rel, own := inModule(imported)
			assert.False(t, own && inLaboratory(rel), "%s imports %s: the product builds without the laboratory", p.rel, rel)
		}
	}
}

func inLaboratory(rel string) bool {
	dir, _, _ := strings.Cut(rel, "/")
	return dir == "bench" || dir == "test" || rel == "cmd/globalfs-lab"
}

func TestEachLibraryHasItsImporter(t *testing.T) {
	for _, p := range packages(t) {
		if floor, _ := floorOf(p.rel); floor == support {
			continue
		}
		for _, imported := range p.Imports {
			if _, own := inModule(imported); own || isStd(imported) {
				continue
			}
			module := moduleOf(imported)
			assert.True(t, slices.Contains(owners[module], p.rel),
				"%s imports %s: only %v may (owners, floors_test.go)", p.rel, imported, owners[module])
		}
	}
}

func isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// moduleOf returns the module of owners that a package belongs to.
func moduleOf(path string) string {
	for module := range owners {
		if path == module || strings.HasPrefix(path, module+"/") {
			return module
		}
	}
	return path
}

// TestDesignListsPackages: docs/design/README.md has each package of the product on its floor, and no other
// packages.
func TestDesignListsPackages(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/README.md")
	require.NoError(t, err)
	listed := map[string]int{}
	name := regexp.MustCompile("`([a-z0-9/-]+)`")
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|`).FindAllStringSubmatch(string(page), -1) {
		floor, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		for _, m := range name.FindAllStringSubmatch(row[2], -1) {
			listed[m[1]] = floor
		}
	}
	product := map[string]int{}
	for rel, floor := range floors {
		top, _, _ := strings.Cut(rel, "/")
		if floor != support && (top == "internal" || top == "pkg" || rel == "cmd/globalfs") {
			product[rel] = floor
		}
	}
	require.Equal(t, product, listed)
}
