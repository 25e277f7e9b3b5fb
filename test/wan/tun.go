package wan

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	mtu = 1500
	// backlog is the number of packets that can wait in a TUN while the router is busy. With fewer, bursts
	// are lost.
	backlog = 5000
)

// openTUN makes a TUN in the namespace of this thread. The TUN exists as long as its descriptor. The error is
// EBUSY if the name is in use.
func openTUN(name string) (descriptor int, err error) {
	const device = "/dev/net/tun"
	descriptor, err = unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, unavailable("open "+device, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(descriptor)
			descriptor = -1
		}
	}()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("interface %s: %w", name, err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(descriptor, unix.TUNSETIFF, request); err != nil {
		return -1, unavailable("make interface "+name, err)
	}
	const offload = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO_ECN
	if err := unix.IoctlSetInt(descriptor, unix.TUNSETOFFLOAD, offload); err != nil {
		return -1, fmt.Errorf("interface %s: set offloading: %w", name, err)
	}
	return descriptor, nil
}

// configure sets the address of an interface of this thread's namespace in its network of 16 bits, and raises
// the interface, which makes the route.
func configure(name string, address netip.Addr) error {
	steps := []struct {
		what    string
		request uint
		fill    func(*unix.Ifreq) error
	}{
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }},
		{"queue", unix.SIOCSIFTXQLEN, func(r *unix.Ifreq) error { r.SetUint32(backlog); return nil }},
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address.AsSlice()) }},
		{"netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 0, 0}) }},
	}
	for _, s := range steps {
		if _, err := control(name, s.request, s.fill); err != nil {
			return fmt.Errorf("interface %s: set its %s: %w", name, s.what, err)
		}
	}
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0) // otherwise it would send neighbour discovery, which the router drops
	return raise(name)
}

// raise brings an interface of this thread's namespace up.
func raise(name string) error {
	now, err := control(name, unix.SIOCGIFFLAGS, func(*unix.Ifreq) error { return nil })
	if err == nil {
		_, err = control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(now.Uint16() | unix.IFF_UP); return nil })
	}
	if err != nil {
		return fmt.Errorf("interface %s: raise: %w", name, err)
	}
	return nil
}

// control makes one ioctl on an interface of this thread's namespace, and returns the kernel's answer.
func control(name string, request uint, fill func(*unix.Ifreq) error) (*unix.Ifreq, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(socket) }()
	r, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	if err := fill(r); err != nil {
		return nil, err
	}
	return r, unix.IoctlIfreq(socket, request, r)
}

// useCubic sets the congestion control of this thread's namespace to cubic, if the machine allows this
// outside its first namespace.
func useCubic() error {
	err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("cubic"), 0)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
