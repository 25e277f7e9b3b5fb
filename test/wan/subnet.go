package wan

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// subnets returns the candidate networks. The last two are for tests of network devices (RFC 2544): they are
// available on a machine with all of 10.0.0.0/8 as its own network.
func subnets() (all []netip.Prefix) {
	for second := byte(98); second < 128; second++ {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second}), 16))
	}
	return append(all, netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16"))
}

// tunName returns the name of the Controller's TUN of a lab. Names of interfaces are unique, so the name
// reserves the subnet.
func tunName(subnet netip.Prefix) string {
	base := subnet.Addr().As4()
	return fmt.Sprintf("wan%d-%d", base[0], base[1])
}

// claimSubnet returns the wanted subnet, or else one that neither the machine nor another lab uses, and the
// Controller's TUN.
func claimSubnet(wanted netip.Prefix) (subnet netip.Prefix, tun int, err error) {
	candidates := subnets()
	if wanted.IsValid() {
		if !wanted.Addr().Is4() || wanted.Bits() != 16 {
			return subnet, -1, fmt.Errorf("subnet %s: want an IPv4 network of 16 bits", wanted)
		}
		candidates = []netip.Prefix{wanted.Masked()}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return subnet, -1, err
	}
	for _, subnet := range candidates {
		if uses(addresses, subnet) {
			continue
		}
		tun, err := openTUN(tunName(subnet))
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		return subnet, tun, err
	}
	return subnet, -1, fmt.Errorf("no free subnet: this machine or other labs use all of %v: set Config.Subnet", candidates)
}

// uses reports whether an interface of this machine has an address in a network that overlaps subnet.
func uses(addresses []net.Addr, subnet netip.Prefix) bool {
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		used, err := netip.ParsePrefix(a.String())
		return err == nil && used.Overlaps(subnet)
	})
}
