package probes

import (
	"bytes"
	"errors"
	"net"
	"time"
)

// NoHostSockets is why gVisor holds what dials a socket of the host.
const NoHostSockets = "gVisor connects to no socket file of the host unless started with --host-uds"

var engine = []Probe{
	{ID: "engine/docker", Tries: "asks a Docker engine through its socket", Why: "whoever reaches it is root on the host", Weak: Sockets, GVisor: NoHostSockets, Run: func(*Env) Verdict {
		return anyOf("asking", sockets("/run/docker.sock", "/run/podman/podman.sock", "/run/corral-engine/docker.sock"), func(path string) error {
			return ask("unix", path, "GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n", []byte("HTTP/1"))
		})
	}},
	{ID: "engine/containerd", Tries: "asks containerd through its socket", Why: "whoever reaches it is root on the host", Weak: Sockets, GVisor: NoHostSockets, Run: func(*Env) Verdict {
		// HTTP/2: the connection's preface and empty settings, which are
		// answered with settings.
		return anyOf("asking", sockets("/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock", "/run/crio/crio.sock", "/run/corral-engine/containerd.sock"), func(path string) error {
			return ask("unix", path, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", nil)
		})
	}},
	{ID: "engine/abstract", Tries: "connects to an abstract Unix socket of the host, as those of containerd's shims were", Why: "CVE-2020-15257", Weak: HostNet, GVisor: "gVisor's abstract sockets are in its own kernel", Run: func(e *Env) Verdict {
		if e.Abstract == "" {
			return absent("a socket")
		}
		return call("connecting", e.tells("unix", "@"+e.Abstract, ""))
	}},
}

// sockets are the places where a socket may be that the host has there.
func sockets(paths ...string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, p, "/var"+p, "/host"+p)
	}
	return all
}

// patience is how long an answer may take.
const patience = 2 * time.Second

// exchange sends a question and returns what comes first.
func exchange(network, address, question string) ([]byte, error) {
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if question != "" {
		if _, err := conn.Write([]byte(question)); err != nil {
			return nil, err
		}
	}
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	return b[:n], err
}

func ask(network, address, question string, answer []byte) error {
	b, err := exchange(network, address, question)
	if err == nil && !bytes.HasPrefix(b, answer) {
		err = errors.New("it answers something else")
	}
	return err
}

// tells demands the secret.
func (e *Env) tells(network, address, question string) error {
	b, err := exchange(network, address, question)
	if err == nil && !e.Is(b) {
		err = errors.New("it answers something else")
	}
	return err
}
