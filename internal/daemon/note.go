package daemon

import (
	"encoding/json"
	"fmt"
)

// The numbers of a server in etcd are signed by the server, like the description (signature.go). So etcd, and
// anyone with write access to it, can withhold numbers or show older ones, and cannot make a server believe
// that its directory was rolled back. The other servers have the same numbers. A server of an older version
// writes its numbers without a signature, which are not believed: the next start of the server replaces them.

// writeNote returns the numbers in the form for the registry.
func (r *rollbacks) writeNote(n *Numbers) ([]byte, error) {
	text, err := json.Marshal(n)
	if err != nil || r.credentials == nil {
		return text, err
	}
	return r.credentials.SignText(append(text, '\n'))
}

// readNote reads the numbers of this server from the registry, after a check of their signature.
func (r *rollbacks) readNote(text []byte) (n Numbers, err error) {
	if r.credentials != nil {
		signed, signer, err := r.credentials.VerifyText(text)
		if err != nil {
			return n, err
		}
		if signer.Name != r.name {
			return n, fmt.Errorf("they are signed by %s", signer)
		}
		text = signed
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, err
	}
	if n.Server != r.name {
		return n, fmt.Errorf("they are of server %q", n.Server)
	}
	return n, nil
}
