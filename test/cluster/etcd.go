package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
)

// FindEtcd returns the path of the etcd binary: in PATH, or the one from deploy/deps.sh.
func FindEtcd() (string, error) {
	path, err := exec.LookPath("etcd")
	if err == nil {
		return path, nil
	}
	cache, cacheErr := os.UserCacheDir()
	if cacheErr != nil {
		return "", err
	}
	path = filepath.Join(cache, "globalfs", "tools", "etcd")
	if _, statErr := os.Stat(path); statErr != nil {
		return "", err
	}
	return path, nil
}
