package mount

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// traces controls the recorder of a mount.
type traces struct {
	recorder *trace.Recorder // nil: there are no traces
}

// start begins to record the requests of the kernel and the calls to servers.
func (t traces) start(h *fuse.InHeader, value string) error {
	d, err := time.ParseDuration(value)
	switch {
	case !isOperator(h):
		return posix.EPERM
	case t.recorder == nil:
		return posix.EOPNOTSUPP
	case err != nil || d <= 0 || d > trace.MaxTime:
		return posix.EINVAL
	}
	t.recorder.Start(d)
	return nil
}

// stop returns the recording: the requests of the calling thread, and all calls to servers. Of too many
// events it returns the first ones.
func (t traces) stop(h *fuse.InHeader) ([]byte, error) {
	switch {
	case !isOperator(h):
		return nil, posix.EPERM
	case t.recorder == nil:
		return nil, posix.EOPNOTSUPP
	}
	got := t.recorder.Stop()
	got.Events = slices.DeleteFunc(got.Events, func(e trace.Event) bool { return e.Thread != 0 && e.Thread != h.Pid })
	for {
		text, err := json.Marshal(got)
		if err != nil || len(text) <= posix.MaxXattr {
			return text, err
		}
		half := len(got.Events) / 2
		got.Dropped += len(got.Events) - half
		got.Events = got.Events[:half]
	}
}
