package mount

import (
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// maxSetIDs bounds the number of remembered files.
const maxSetIDs = 4096

// setIDs are the files with set-id bits in the kernel's cache. The kernel does not drop these bits by itself
// when another user's write removes them.
type setIDs struct {
	*recent.Map[posix.Ino, struct{}]
}

func newSetIDs() setIDs { return setIDs{recent.New[posix.Ino, struct{}](maxSetIDs)} }

// remember records the attributes of an answer to the kernel.
func (s setIDs) remember(a *posix.Attr) {
	if a.Mode&(posix.SetUID|posix.SetGID) != 0 && !a.Mode.IsDir() {
		s.Put(a.Ino, struct{}{})
	}
}

// taken makes the kernel drop the attributes of a file if an update may have removed its set-id bits.
func (s setIDs) taken(k *serve.Kernel, ino posix.Ino) {
	if _, known := s.Get(ino); known {
		s.Drop(ino)
		k.ForgetAttributes(uint64(ino))
	}
}
