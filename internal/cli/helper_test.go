package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// The calls of mount(8) and mount.fuse3(8), and the flags that a mount gets by them.
func TestMountHelper(t *testing.T) {
	safe, open := mountpoint.Flags{}, mountpoint.Flags{Suid: true, Dev: true}
	readOnly := func(f mountpoint.Flags) mountpoint.Flags {
		f.ReadOnly = true
		return f
	}
	for line, x := range map[string]struct{ before, after mountpoint.Flags }{
		"mount.globalfs n1:7420 /mnt -n -o rw,noexec":                           {safe, mountpoint.Flags{NoExec: true}},
		"mount.globalfs n1:7420 /mnt -r":                                        {safe, readOnly(safe)},
		"globalfs n1:7420 /mnt -o rw,dev,suid,region=eu":                        {safe, safe},           // mount.fuse3
		"mount.fuse.globalfs n1:7420 /mnt -o ro,remount,region=eu,_netdev":      {safe, readOnly(safe)}, // of /etc/fstab
		"mount.fuse.globalfs n1:7420 /mnt -o rw,remount,_netdev":                {readOnly(open), open},
		"mount.fuse.globalfs n1:7420 /mnt -o ro,nosuid,nodev,user_id=0,remount": {safe, readOnly(safe)}, // of /proc/mounts
		"mount.fuse.globalfs n1:7420 /mnt -o ro,user_id=0,remount":              {safe, readOnly(open)}, // remount,ro,suid,dev
		"mount.fuse.globalfs n1:7420 /mnt -o rw,nosuid,user_id=0,remount":       {open, mountpoint.Flags{Dev: true}},
		"globalfs n1:7420 /mnt -o ro,user_id=0,remount":                         {open, readOnly(safe)}, // mount.fuse3 with nosuid,nodev
		"globalfs n1:7420 /mnt -o ro,user_id=0,remount,dev,suid":                {safe, readOnly(open)},
		"globalfs n1:7420 /mnt -o ro,remount,region=eu,dev,suid":                {safe, readOnly(safe)},
		"globalfs mount n1:7420 /mnt -o suid,dev,ro":                            {safe, readOnly(open)}, // no helper
	} {
		words := strings.Fields(line)
		args, is := asMountHelper(words[0], words[1:])
		require.Equal(t, words[1] != "mount", is, line)
		require.Equal(t, "mount", args[0], line)
		require.Equal(t, []string{"n1:7420", "/mnt"}, args[1:3], line)
		flags := x.before
		for i := 3; i+1 < len(args); i += 2 {
			require.Equal(t, "-o", args[i], line)
			for o := range strings.SplitSeq(args[i+1], ",") {
				flags.Set(o)
			}
		}
		require.Equal(t, x.after, flags, line)
	}
	args, is := asMountHelper("globalfs", []string{"n1:7420", "dev"})
	require.True(t, is)
	require.Equal(t, []string{"mount", "n1:7420", "dev"}, args, "a directory of that name")
}
