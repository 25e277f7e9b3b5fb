package mount

import (
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// maxSetIDs bounds the files that are remembered.
const maxSetIDs = 4096

// setIDs are files that the kernel believes to have set-id bits. The kernel does not forget them by itself when
// another user's write takes them away.
type setIDs struct {
	*recent.Map[posix.Ino, struct{}]
}

func newSetIDs() setIDs { return setIDs{recent.New[posix.Ino, struct{}](maxSetIDs)} }

// told notes attributes that the kernel is told.
func (s setIDs) told(a *posix.Attr) {
	if a.Mode&(posix.SetUID|posix.SetGID) != 0 && !a.Mode.IsDir() {
		s.Put(a.Ino, struct{}{})
	}
}

// taken makes the kernel forget the attributes of a file whose set-id bits may just have been taken away.
func (s setIDs) taken(k *serve.Kernel, ino posix.Ino) {
	if _, told := s.Get(ino); told {
		s.Drop(ino)
		k.ForgetAttributes(uint64(ino))
	}
}
