// Package identity says who a process is, by its certificate: it makes the certificates of a cluster, reads
// them, and checks those of peers in TLS handshakes.
//
// # What a certificate says
//
// One URI, as an alternative name, and nothing else counts:
//
//	globalfs://CLUSTER/server/NAME
//	globalfs://CLUSTER/admin/NAME
//	globalfs://CLUSTER/client/NAME?uids=33,1000-1999&gids=100
//
// A server speaks for any process of the cluster: whoever has the key of one can read and write everything.
// An admin may ask for what changes the cluster. A client speaks for the users and groups in its certificate,
// and for no others, whatever its own kernel says. Names have 1 to 63 letters, digits, dots, hyphens and
// underscores.
//
// # What a handshake checks
//
// Both ends show a certificate, by TLS 1.3, that the CA of the cluster has signed for the use at hand and
// that is valid now; it names the same cluster; and who is called is a server. So a client that was broken
// into cannot pose as a server to others.
//
// The name of the host is not checked. Addresses in overlay networks and clouds change, behind translation
// they are not even those that a server sees, and they come from the cluster's own registry. What the caller
// must know is that a server of its cluster answers, which is what role and CA say; any server could answer
// for another one anyway, as each has all that it takes.
//
// # What is not there
//
// There are no lists of revocations in files: what is revoked stands in the description of the cluster, and
// processes that know the description set it (SetRevoked). A ca.pem may hold several certificates, so that an old CA and a new one are trusted for a while.
//
// # Vector keys
//
// The servers of a cluster share keys by which a server proves to the others what a client has seen (package
// ask). The keys are derived from the key of the CA and a generation. They stand in the key file of each
// server, behind its private key: they reach the servers together with the certificates, and nobody else. The
// keys of two generations are valid.
//
// # Rotation
//
// Credentials look at their files at handshakes, at most once a second, and use new ones from then on. If
// these are broken, they keep the ones that they have and say so in the log. Connections that are open stay
// as they are.
package identity
