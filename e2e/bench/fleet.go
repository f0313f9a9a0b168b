//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/nodeexec"
)

// A fleet is a gateway's side of nodes: the message server, over TLS on
// loopback, and what speaks to nodes through it. Every key is a node of that
// name: who may be one is not measured.
type fleet struct {
	server *broker.Server
	conn   *fabric.Link
	nodes  *nodeexec.Fabric
	public string // key of the gateway

	mu   sync.Mutex
	list []nodeexec.Paired
}

// openFleet keeps its certificate in dir, which exists.
func openFleet(dir string) (_ *fleet, err error) {
	f := &fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	if f.public, err = key.PublicKey(); err != nil {
		return nil, err
	}
	if f.server, err = broker.Start(broker.Config{Dir: dir, Listen: "127.0.0.1:0", Authorize: f.authorize}); err != nil {
		return nil, err
	}
	f.conn, err = fabric.Connect(context.Background(), func(o nats.Option) (*nats.Conn, error) {
		return f.server.Connect(append(fabric.ConnectOptions(nil), o)...)
	}, func(error) {})
	if err != nil {
		return nil, err
	}
	if f.nodes, err = nodeexec.New(nodeexec.Config{Conn: f.conn, Key: key, Paired: f.paired}); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *fleet) authorize(key string) (node string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(f.list, func(p nodeexec.Paired) bool { return p.ID == key }) {
		f.list = append(f.list, nodeexec.Paired{ID: key})
	}
	return key, true
}

// paired is not a copy: what is in the list does not change.
func (f *fleet) paired() []nodeexec.Paired {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// await returns when so many nodes are online.
func (f *fleet) await(ctx context.Context, nodes int) error {
	for end := time.Now().Add(readyLimit); ; time.Sleep(20 * time.Millisecond) {
		online := 0
		for _, n := range f.nodes.List(ctx) {
			if n.Online {
				online++
			}
		}
		switch {
		case online == nodes:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("%d of %d nodes are online", online, nodes)
		}
	}
}

// order is what nodes of this fleet have to know.
func (f *fleet) order(nodes int) order {
	return order{Nodes: nodes, Address: "tls://" + f.server.Addr().String(), Fingerprint: f.server.Fingerprint(), Gateway: f.public}
}

// Close ends the gateway's side; nodes go on trying to reach it.
func (f *fleet) Close() error {
	var err error
	if f.nodes != nil {
		err = f.nodes.Close()
	}
	if f.conn != nil {
		f.conn.Close()
	}
	if f.server != nil {
		f.server.Close()
	}
	return err
}
