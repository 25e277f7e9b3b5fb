package geo

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
)

func TestAreaOf(t *testing.T) {
	const own = "github.com/globalfs/globalfs/"
	for _, c := range []struct {
		area  string
		stack []string // the innermost first
	}{
		{"network", []string{"internal/runtime/syscall/linux.Syscall6", "syscall.write", "internal/poll.(*FD).Write", "net.(*conn).Write", "crypto/tls.(*Conn).write"}},
		{"TLS", []string{"crypto/internal/fips140/aes/gcm.gcmAesEnc", "crypto/tls.(*Conn).Write", "google.golang.org/grpc/internal/transport.(*bufWriter).Flush"}},
		{"gRPC", []string{"runtime.mallocgc", "google.golang.org/grpc.(*Server).handleStream", own + "internal/transport.(*Server).serve"}},
		{"FUSE", []string{"internal/runtime/syscall/linux.Syscall6", "syscall.Read", "github.com/hanwen/go-fuse/v2/fuse.(*Server).readRequest"}},
		{"files", []string{"syscall.pwrite", "internal/poll.(*FD).Pwrite", "os.(*File).WriteAt", own + "internal/wal.(*Log).Append"}},
		{"goleveldb", []string{"bytes.Compare", "github.com/syndtr/goleveldb/leveldb.(*DB).Get", own + "internal/kv.(*DB).Get", own + "internal/meta.(*Partition).Apply"}},
		{"multicast", []string{"runtime.mapaccess1", own + "pkg/multicast/primcast.(*Core).Step", own + "internal/driver.(*Driver).run"}},
		{"metadata", []string{own + "internal/meta.(*Partition).Apply", own + "internal/replica.(*Replica).Step"}},
		{"links", []string{own + "internal/driver.(*Driver).run"}},
		{"rest of GlobalFS", []string{"sync.(*Mutex).Lock", own + "internal/client.(*Client).Create", own + "internal/mount.(*fs).Create"}},
		{scheduler, []string{"runtime.futex", "runtime.futexwakeup", "runtime.wakep", "runtime.ready", own + "internal/driver.(*Driver).run"}},
		{scheduler, []string{"runtime.epollwait", "runtime.netpoll", "runtime.findRunnable", "runtime.schedule", "runtime.mcall"}},
		{collector, []string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}},
		{collector, []string{"runtime.gcAssistAlloc", "runtime.mallocgc", own + "internal/meta.(*Partition).Apply"}},
		{other, []string{"main.main"}},
	} {
		require.Equal(t, c.area, areaOf(c.stack), c.stack)
		require.Contains(t, Areas(), c.area)
	}
}

// The CPU time is divided in the proportions of the samples.
func TestAreasOf(t *testing.T) {
	function := func(id uint64, name string) *profile.Location {
		return &profile.Location{ID: id, Line: []profile.Line{{Function: &profile.Function{ID: id, Name: name}}}}
	}
	tls, network := function(1, "crypto/aes.encrypt"), function(2, "net.(*conn).Write")
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{tls}, Value: []int64{3, 30e6}},
			{Location: []*profile.Location{network, tls}, Value: []int64{1, 10e6}},
		},
		Location: []*profile.Location{tls, network},
		Function: []*profile.Function{tls.Line[0].Function, network.Line[0].Function},
	}
	var data bytes.Buffer
	require.NoError(t, p.Write(&data))
	areas, err := areasOf(data.Bytes(), 200)
	require.NoError(t, err)
	require.InDeltaMapValues(t, map[string]float64{"TLS": 150, "network": 50}, areas, 1e-9)
	_, err = areasOf([]byte("no profile"), 200)
	require.Error(t, err)
}
