package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
	"github.com/globalfs/globalfs/internal/topology"
)

// A server connects to etcd with the certificates of 'globalfs certs etcd'. Etcd refuses the certificates of
// the cluster: otherwise a client of the file system could write the description. A server refuses an
// unencrypted etcd on another host.
func TestEtcdByTLS(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	w.certify()
	written, err := identity.IssueEtcd(w.file.Certificates, "m0", []string{"127.0.0.1", "localhost"}, time.Hour)
	require.NoError(t, err)
	servers, member := written[0], written[1]
	etcd := registrytest.StartWith(t, registrytest.Options{TLS: &registrytest.TLS{Certificate: member.Certificate, Key: member.Key, ClientCA: member.CA}})
	good := w.file
	good.Registry.Endpoints = registrytest.Endpoints(etcd)
	good.Registry.CA, good.Registry.Certificate, good.Registry.Key = servers.CA, servers.Certificate, servers.Key

	bad := good
	laptop := identity.FilesIn(w.file.Certificates, identity.Client, "laptop")
	bad.Registry.Certificate, bad.Registry.Key = laptop.Certificate, laptop.Key
	r, err := openRegistry(&bad, quiet())
	require.NoError(t, err)
	_, _, err = r.Bootstrap(t.Context(), []byte("mine"))
	require.Error(t, err)
	require.NoError(t, r.Close())

	remote := good
	remote.Registry.Endpoints, remote.Registry.CA, remote.Registry.Certificate, remote.Registry.Key = []string{"http://10.255.255.1:2379"}, "", "", ""
	_, err = w.tryStart(t.Context(), "westa", remote)
	require.ErrorContains(t, err, "insecure: true")
	remote.Registry.Insecure = true
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = w.tryStart(ctx, "westa", remote)
	require.NotContains(t, err.Error(), "insecure: true", "it tries to reach this etcd")

	w.file = good
	w.start("westa")
	awaitHealthy(t, w.operator())
	_, err = identity.Load(servers, nil)
	require.ErrorContains(t, err, "0 URIs", "no process of GlobalFS takes a certificate of etcd's CA")
}
