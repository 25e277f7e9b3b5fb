// Package identity proves the identity of a process by its certificate: it makes the certificates of a
// cluster, reads them, and checks the certificates of peers in TLS handshakes.
//
// # The content of a certificate
//
// One URI, as an alternative name; no other field counts:
//
//	globalfs://CLUSTER/server/NAME
//	globalfs://CLUSTER/admin/NAME
//	globalfs://CLUSTER/client/NAME?uids=33,1000-1999&gids=100
//
// A server acts for any process of the cluster: the key of one server is enough to read and write
// everything. An admin may request changes of the cluster. A client acts for the users and groups in its
// certificate, and for no others, whatever its own kernel claims. Names have 1 to 63 letters, digits, dots,
// hyphens and underscores.
//
// # The checks of a handshake
//
// Both ends show a certificate, by TLS 1.3. The CA of the cluster has signed it for this use, it is valid
// now, and it names the same cluster. The called side must be a server, so a compromised client cannot pose
// as a server to others.
//
// The host name is not checked. Addresses in overlay networks and clouds change, behind address translation
// they differ from those that a server sees, and they come from the cluster's own registry. The caller must
// know that a server of its cluster answers, which role and CA prove. Any server could answer for another one
// anyway, as each has all the necessary keys.
//
// # Limits
//
// There are no revocation lists in files: the description of the cluster holds the revocations, and processes
// with the description set them (SetRevoked). A ca.pem may hold several certificates, so that an old CA and a
// new one are trusted for a while.
//
// # Vector keys
//
// The servers of a cluster share keys with which a server proves to the others the vector of a client
// (package ask). The keys are derived from the key of the CA and a generation. They are in the key file of
// each server, after its private key: they reach the servers together with the certificates, and no other
// process. The keys of two generations are valid.
//
// # Rotation
//
// Credentials check their files at handshakes, at most once a second, and use new files from then on. If the
// new files are broken, the old ones stay in use, and the log reports it. Open connections do not change.
package identity
