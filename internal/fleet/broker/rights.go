package broker

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// rights are the subjects that a connection may use.
type rights struct{ publish, subscribe []string }

// rightsOf returns the rights of a node's key, or of a key without a node if node is
// empty.
func rightsOf(key, node string) rights {
	ask, answer := fabric.PairSubjects(key)
	r := rights{[]string{ask}, []string{answer}}
	if node != "" {
		r.publish = append(r.publish, fabric.FromNode(node), fabric.HelloSubject(node))
		r.subscribe = append(r.subscribe, fabric.NodeSubjects(node))
	}
	return r
}

// rightsOfGateway are the rights that a gateway needs at an external server.
func rightsOfGateway() rights {
	ask, answer := fabric.PairSubjects("*")
	return rights{[]string{fabric.NodeSubjects("*"), answer}, []string{fabric.GatewaySubjects("*"), fabric.AllHellos, ask}}
}

// rightsOnBucket are the additional rights that a gateway needs to use a key-value
// bucket of JetStream.
func rightsOnBucket(name string) rights {
	stream := "KV_" + name
	r := rights{publish: []string{"$JS.API.INFO"}}
	for _, api := range []string{"STREAM.INFO.", "STREAM.CREATE.", "STREAM.MSG.GET.", "STREAM.PURGE."} {
		r.publish = append(r.publish, "$JS.API."+api+stream)
	}
	for _, api := range []string{"CONSUMER.CREATE.", "CONSUMER.INFO.", "CONSUMER.DELETE."} {
		r.publish = append(r.publish, "$JS.API."+api+stream+".>")
	}
	r.publish = append(r.publish, "$JS.FC."+stream+".>", "$KV."+name+".>")
	r.subscribe = []string{nats.InboxPrefix + ">"}
	return r
}

// A User is a key that may connect to an [External] server.
type User struct {
	Key  string // its public nkey
	Node string // the id of the node that it is; empty: of a machine that may ask to be one
	Name string // for people
}

// ServerConfig returns a part of the configuration of an [External] NATS server, in its
// own syntax. It lists the keys of the gateways (those in their [External].Creds) and
// of the nodes, each with the subjects that it needs. It is a block "authorization",
// whose list "users" can be used in an account as well. The buckets are the JetStream
// buckets that gateways share.
func ServerConfig(gateways, buckets []string, nodes []User) (string, error) {
	var b strings.Builder
	b.WriteString("authorization {\n  users = [\n")
	add := func(what, key string, r rights) error {
		if !isKey(key) {
			return corral.Errorf(corral.ErrInvalid, "use the public key of an nkey for users: U and 55 characters", "%q is no key of a user", key)
		}
		fmt.Fprintf(&b, "    # %s\n    { nkey: %s, permissions: { publish: { allow: [%s] }, subscribe: { allow: [%s] } } }\n",
			what, key, quoted(r.publish), quoted(r.subscribe))
		return nil
	}
	own := rightsOfGateway()
	for _, bucket := range buckets {
		more := rightsOnBucket(bucket)
		own.publish, own.subscribe = append(own.publish, more.publish...), append(own.subscribe, more.subscribe...)
	}
	for _, key := range gateways {
		if err := add("gateway", key, own); err != nil {
			return "", err
		}
	}
	for _, u := range nodes {
		what := "machine that may ask to be a node"
		if u.Node != "" {
			if err := fabric.ValidateNodeID(u.Node); err != nil {
				return "", err
			}
			what = "node " + u.Node
		}
		if u.Name != "" {
			what += ": " + strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return ' '
				}
				return r
			}, u.Name)
		}
		if err := add(what, u.Key, rightsOf(u.Key, u.Node)); err != nil {
			return "", err
		}
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

// isKey reports whether key is an nkey of a user in its only spelling: the base32
// decoder ignores line ends.
func isKey(key string) bool {
	return nkeys.IsValidPublicUserKey(key) && fabric.ValidateNodeID(key) == nil
}

func quoted(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }
