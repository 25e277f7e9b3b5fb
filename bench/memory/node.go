package memory

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/shm"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/fabric/verbs"
)

// Config of a node.
type Config struct {
	Dir      string
	Provider string
	Self     fabric.NodeID
	Device   string        // of provider verbs; empty: the first one
	Spin     time.Duration // how long Wait of providers shm and verbs looks before it sleeps
}

// Node is an open node. Close ends it.
type Node struct {
	fabric.Endpoint
	cfg         Config
	credentials *identity.Credentials
	listener    net.Listener
	serve       func(conn net.Conn) error
	serving     sync.WaitGroup
	ctx         context.Context
	cancel      context.CancelFunc
}

// Providers returns the names of the providers. Provider verbs needs an RDMA device and a program that was
// built with RDMA.
func Providers() []string { return []string{"shm", "soft", "verbs"} }

// CheckProvider says why there is no such provider, or nil.
func CheckProvider(name string) error {
	if !slices.Contains(Providers(), name) {
		return fmt.Errorf("there is no provider %q: choose of %s", name, strings.Join(Providers(), ", "))
	}
	return nil
}

const namePrefix = "node-"

// Prepare makes the certificates of nodes 1 to n in a directory that only this user can read.
func Prepare(dir string, n int) error {
	ca, err := identity.NewCA("laboratory", 24*time.Hour)
	if err != nil {
		return err
	}
	if err := identity.SaveCA(dir, ca, false); err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		name := namePrefix + strconv.Itoa(i)
		pair, err := ca.Issue(identity.Request{Role: identity.Server, Name: name})
		if err != nil {
			return err
		}
		if err := pair.Save(identity.FilesIn(dir, identity.Server, name), true); err != nil {
			return err
		}
	}
	return nil
}

// Open opens a node, which serves the others from now on.
func Open(cfg Config) (*Node, error) {
	if err := CheckProvider(cfg.Provider); err != nil {
		return nil, err
	}
	name := namePrefix + strconv.Itoa(int(cfg.Self))
	credentials, err := identity.Load(identity.FilesIn(cfg.Dir, identity.Server, name), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, credentials: credentials}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.open(); err != nil {
		n.cancel()
		return nil, err
	}
	n.serving.Go(n.accept)
	return n, nil
}

func (n *Node) open() error {
	if n.cfg.Provider != "shm" {
		return n.openStream()
	}
	e, err := shm.New(shm.Config{Self: n.cfg.Self, Dial: n.dialShm, Spin: n.cfg.Spin})
	if err != nil {
		return err
	}
	n.Endpoint = e
	n.serve = func(conn net.Conn) error {
		unix := conn.(*net.UnixConn) // the listener is a Unix socket's
		state, err := shm.Server(n.ctx, unix, n.credentials.ServerConfig())
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		peer, err := nodeOf(state)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		return e.Serve(peer, unix)
	}
	path := n.socket(n.cfg.Self)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, e.Close())
	}
	if n.listener, err = net.Listen("unix", path); err != nil {
		return errors.Join(err, e.Close())
	}
	return nil
}

func (n *Node) socket(id fabric.NodeID) string {
	return filepath.Join(n.cfg.Dir, namePrefix+strconv.Itoa(int(id))+".socket")
}

func (n *Node) dialShm(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", n.socket(peer))
	if err != nil {
		return nil, err
	}
	unix := conn.(*net.UnixConn) // the network is unix
	state, err := shm.Client(ctx, unix, n.credentials.ClientConfig())
	if err == nil {
		err = expect(state, peer)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return unix, nil
}

// stream is a provider whose connections are streams of any kind.
type stream interface {
	fabric.Endpoint
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// newStream makes the endpoint of a provider.
func (n *Node) newStream() (stream, error) {
	if n.cfg.Provider == "verbs" {
		return verbs.New(verbs.Config{Self: n.cfg.Self, Dial: n.dialStream, Device: n.cfg.Device, Spin: n.cfg.Spin})
	}
	return soft.New(soft.Config{Self: n.cfg.Self, Dial: n.dialStream})
}

func (n *Node) openStream() error {
	e, err := n.newStream()
	if err != nil {
		return err
	}
	n.Endpoint = e
	n.serve = func(conn net.Conn) error {
		session := tls.Server(conn, n.credentials.ServerConfig())
		if err := session.HandshakeContext(n.ctx); err != nil {
			return errors.Join(err, conn.Close())
		}
		peer, err := nodeOf(session.ConnectionState())
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		return e.Serve(peer, session)
	}
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return errors.Join(err, e.Close())
	}
	if err := n.publish(n.listener.Addr().String()); err != nil {
		return errors.Join(err, n.listener.Close(), e.Close())
	}
	return nil
}

// publish writes the address of the node for the others.
func (n *Node) publish(address string) error {
	path := n.addressFile(n.cfg.Self)
	if err := os.WriteFile(path+".new", []byte(address), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (n *Node) addressFile(id fabric.NodeID) string {
	return filepath.Join(n.cfg.Dir, namePrefix+strconv.Itoa(int(id))+".address")
}

func (n *Node) dialStream(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
	address, err := os.ReadFile(n.addressFile(peer))
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", string(address))
	if err != nil {
		return nil, err
	}
	session := tls.Client(conn, n.credentials.ClientConfig())
	if err = session.HandshakeContext(ctx); err == nil {
		err = expect(session.ConnectionState(), peer)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return session, nil
}

// nodeOf gives the node that a verified certificate names.
func nodeOf(state tls.ConnectionState) (fabric.NodeID, error) {
	id, err := identity.FromCertificate(state.PeerCertificates[0])
	if err != nil {
		return 0, err
	}
	number, isNode := strings.CutPrefix(id.Name, namePrefix)
	peer, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !isNode {
		return 0, fmt.Errorf("%s is no node: its name does not begin with %s and a number", id, namePrefix)
	}
	return fabric.NodeID(peer), nil
}

func expect(state tls.ConnectionState, peer fabric.NodeID) error {
	answers, err := nodeOf(state)
	if err == nil && answers != peer {
		err = fmt.Errorf("node %d answers in the place of node %d", answers, peer)
	}
	return err
}

// accept serves connections until the listener is closed. Errors of a connection concern its peer, which
// notices the end of the connection.
func (n *Node) accept() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.serving.Go(func() { _ = n.serve(conn) })
	}
}

// Close ends the node.
func (n *Node) Close() error {
	n.cancel()
	err := errors.Join(n.listener.Close(), n.Endpoint.Close())
	n.serving.Wait()
	return err
}
