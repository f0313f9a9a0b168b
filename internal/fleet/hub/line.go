package hub

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/fleet/join"
)

// Lines returns the lines that machines need to become nodes here, one for each way to
// connect.
func (h *Hub) Lines() []join.Line {
	if h.server == nil {
		return h.externalLines()
	}
	var lines []join.Line
	line := func(at net.Addr, webSocket bool) {
		l := join.Line{Hosts: reachable(at), WebSocket: webSocket, Key: h.public, Cert: h.server.Fingerprint()}
		if h.cfg.Advertise != "" {
			l.Hosts = advertised(h.cfg.Advertise, at, len(lines) > 0)
		}
		lines = append(lines, l)
	}
	if h.cfg.Listen != "" {
		line(h.server.Addr(), false)
	}
	if a := h.server.WebSocketAddr(); a != nil {
		line(a, true)
	}
	return lines
}

// externalLines returns the lines for an external server, in the order of its URL.
func (h *Hub) externalLines() []join.Line {
	var lines []join.Line
	for url := range strings.SplitSeq(h.cfg.External.URL, ",") {
		scheme, host, _ := strings.Cut(strings.TrimSpace(url), "://")
		webSocket := scheme == "wss" || scheme == "ws"
		i := slices.IndexFunc(lines, func(l join.Line) bool { return l.WebSocket == webSocket })
		if i < 0 {
			lines = append(lines, join.Line{WebSocket: webSocket, Key: h.public, Cert: strings.ToLower(h.cfg.External.Cert)})
			i = len(lines) - 1
		}
		lines[i].Hosts = append(lines[i].Hosts, host)
	}
	if h.cfg.Advertise != "" {
		lines = lines[:1]
		lines[0].Hosts = advertised(h.cfg.Advertise, nil, false)
	}
	return lines
}

// advertised returns the hosts of a list, and adds the port of at to hosts without one.
func advertised(list string, at net.Addr, otherPort bool) []string {
	hosts := strings.Split(list, ",")
	for i, h := range hosts {
		hosts[i] = strings.TrimSpace(h)
		if !otherPort {
			continue
		}
		host, _, err := net.SplitHostPort(hosts[i])
		_, port, perr := net.SplitHostPort(at.String())
		if err == nil && perr == nil {
			hosts[i] = net.JoinHostPort(host, port)
		}
	}
	return hosts
}

// maxHosts bounds the addresses of this machine in a line.
const maxHosts = 4

// reachable returns the addresses under which other machines can reach a listener. If
// it listens on all interfaces, these are the name of this machine and its addresses.
func reachable(addr net.Addr) []string {
	host, port, err := net.SplitHostPort(addr.String())
	ip, perr := netip.ParseAddr(host)
	if err != nil || perr != nil || !ip.IsUnspecified() {
		return []string{addr.String()}
	}
	var hosts []string
	if name, err := os.Hostname(); err == nil && name != "" && name != "localhost" {
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	addresses, _ := net.InterfaceAddrs() // without them, the name remains
	for _, six := range []bool{false, true} {
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			ip := p.Addr().Unmap()
			if err == nil && ip.Is6() == six && ip.IsGlobalUnicast() && len(hosts) < maxHosts {
				hosts = append(hosts, net.JoinHostPort(ip.String(), port))
			}
		}
	}
	if len(hosts) == 0 {
		hosts = []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return hosts
}
