package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/approvals"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/nodeexec"
)

// ServerConfig returns the configuration that an external message server needs, in its
// own syntax: for the keys of gateways, which may share the registry and the approvals
// there, of nodes, and of machines that may ask to be nodes.
func ServerConfig(gateways []string, shared bool, nodes []api.Node, asking []string) (string, error) {
	var buckets []string
	if shared {
		buckets = []string{pairing.BucketName, approvals.BucketName}
	}
	var users []broker.User
	for _, n := range nodes {
		if n.State != api.NodeRevoked {
			users = append(users, broker.User{Key: n.Key, Node: n.ID, Name: n.Name})
		}
	}
	for _, key := range asking {
		users = append(users, broker.User{Key: key})
	}
	return broker.ServerConfig(gateways, buckets, users)
}

// Kept returns the nodes in a directory that no Hub has open.
func Kept(dir string) (_ []api.Node, err error) {
	if _, err := os.Lstat(filepath.Join(dir, registryFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	key, err := readKey(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	r, err := pairing.Open(pairing.Options{Dir: dir, GatewayKey: public})
	if err != nil {
		return nil, err
	}
	var list []api.Node
	for _, n := range r.Nodes() {
		list = append(list, shown(n, nodeexec.Status{}))
	}
	return list, r.Close()
}
