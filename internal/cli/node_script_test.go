//go:build linux

package cli

import (
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// nodeKey is that of the node of a script.
const nodeKey = "node"

// nodeCommand is for scripts:
//
//	node start [FLAG]...  starts corral node; what it prints is added to node.out, and its log to
//	                      node.log
//	node first [FLAG]...  the same, by the line in the file join
//	node kill             is kill -9
//	node stop             is a SIGTERM, after which it must end by itself with code 0
func nodeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: node start|first|kill|stop")
	}
	n := ts.Value(nodeKey).(*scriptProgram)
	switch args[0] {
	case "start":
		n.launch(ts, "node.out", "node.log", append([]string{"node"}, args[1:]...))
	case "first":
		command := strings.Fields(ts.ReadFile("join")) // corral node --gateway LINE
		n.launch(ts, "node.out", "node.log", append(command[1:], args[1:]...))
	default:
		n.end(ts, args[0] == "stop", "node.log")
	}
}
