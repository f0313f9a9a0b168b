// Package daemon composes a gateway and a node: from a configuration to engines,
// executors, routers, policy, sessions, tools and servers. All of it is begun by
// OpenGateway or OpenNodeHost and ended by Close; a configuration that changes counts
// from the next call on, since every call asks for it.
//
//	options.go        what the configuration does not say
//	find.go           where the configuration and the state are
//	settings.go       what sandboxes are like: configuration and flags in one
//	backends.go       the hosts and engines of this machine, which tests replace
//	hosts.go          what the commands of an agent run on
//	scopes.go         which sandbox they go to, and the pool of containers
//	policies.go       what stands before them
//	gateway.go        a gateway: the listeners, the server, the life of all of it
//	tools.go, mcp.go  what agents call
//	keeper.go         what can be done with sandboxes
//	patches.go        undoes patches that a killed gateway left
//	fleet.go          a gateway's other machines
//	node.go           a node: the same hosts, without a gateway's part
//
// It parses no command line and prints nothing: that is internal/cli. The package for
// embedding programs is corral/daemon.
package daemon
