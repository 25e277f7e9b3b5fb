package cluster

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// putKey writes a key of etcd, like etcdctl.
func (c *Cluster) putKey(t *testing.T, key string, value []byte) {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	body := fmt.Sprintf(`{"key": %q, "value": %q}`, encode([]byte(key)), encode(value))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.Address("etcd")+"/v3/kv/put", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// All data of etcd are lost for ever. Files are served, the description is put back from a server's copy, and
// the servers set their marks again: a server that then loses its disk is replaced.
func TestEtcdLostForGood(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write(t, 5)
	require.NoError(t, v.Etcd.Stop())
	require.NoError(t, os.RemoveAll(v.path("etcd")))
	v.write(t, 5)
	require.NoError(t, v.Etcd.Start(t.Context()))
	v.write(t, 5)
	copied, err := os.ReadFile(filepath.Join(v.DataDir("westb"), "cluster.yaml"))
	require.NoError(t, err)
	from := map[string]int{}
	for name := range v.Servers {
		from[name] = len(v.log(t, name))
	}
	v.putKey(t, "/globalfs/test/spec", copied)
	require.Eventually(t, func() bool { // the first server that looks sets all of them
		for name := range v.Servers {
			if strings.Contains(v.log(t, name)[from[name]:], "the registry has lost the marks of processes: they are set again") {
				return true
			}
		}
		return false
	}, long, 100*time.Millisecond)
	v.awaitHealthy(t)
	v.Servers["westc"].Kill()
	require.NoError(t, os.RemoveAll(v.DataDir("westc")))
	before := len(v.log(t, "westc"))
	require.NoError(t, v.Servers["westc"].Start(t.Context()))
	v.awaitSaid(t, "westc", before, "a replica's disk is gone: another process takes its place here")
	v.awaitHealthy(t)
	v.Servers["westa"].Kill() // the new replicas are needed
	v.write(t, 5)
	v.check(t)
}

// The key of the CA is lost for ever. Another CA makes all certificates anew, and the servers sign the
// description by it. Certificates of the lost CA are refused.
func TestCALostForGood(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write(t, 5)
	require.NoError(t, v.mount.Close())
	for _, s := range v.Servers {
		require.NoError(t, s.Stop())
	}
	old := filepath.Join(t.TempDir(), "certs")
	require.NoError(t, os.Rename(v.Certs(), old))
	require.NoError(t, os.Rename(v.Certs()+"-ca", old+"-ca"))
	for _, args := range [][]string{
		{"init", "--cluster", "test"}, {"admin", "op"}, {"client", "mount", "--root"}, {"server", "westa"}, {"server", "westb"}, {"server", "westc"},
	} {
		out, err := v.Run(t.Context(), append(append([]string{"certs"}, args...), "--dir", v.Certs())...)
		require.NoError(t, err, out)
	}
	v.startAll(t)
	v.awaitHealthy(t)
	require.NoError(t, v.mount.Start(t.Context()))
	v.check(t)
	v.write(t, 5)
	out, err := v.Admin(t.Context(), "status", "--certs", old)
	require.Error(t, err, out)
}
