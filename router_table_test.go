package corral_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/doctable"
)

var update = flag.Bool("update", false, "rewrite the table in docs/reference/routing.md")

// A dimension of the decision, with every value it can have.
type dimension struct {
	name   string
	values []string
	set    func(q *corral.RouteRequest, value string)
}

var dimensions = []dimension{
	{"configured", []string{"unset", "sandbox", "gateway", "node"}, func(q *corral.RouteRequest, v string) {
		q.Configured = hostOf(v)
	}},
	{"requested", []string{"unset", "sandbox", "gateway", "node"}, func(q *corral.RouteRequest, v string) {
		q.Requested = hostOf(v)
	}},
	{"elevated", []string{"no", "yes"}, func(q *corral.RouteRequest, v string) { q.Elevated = v == "yes" }},
	{"sandbox", []string{"off", "on", "unreachable"}, func(q *corral.RouteRequest, v string) {
		q.Sandbox = corral.SandboxState(v)
	}},
	{"required", []string{"no", "yes"}, func(q *corral.RouteRequest, v string) { q.SandboxRequired = v == "yes" }},
	{"bound node", []string{"none", "bound"}, func(q *corral.RouteRequest, v string) {
		if v == "bound" {
			q.BoundNode = "builder"
		}
	}},
}

func hostOf(v string) corral.Host {
	if v == "unset" {
		return ""
	}
	return corral.Host(v)
}

// Outcomes, in the words of the table.
const (
	toSandbox     = "sandbox"
	toGateway     = "gateway"
	toBareGateway = "gateway, with a notice: no container, no approval"
	toOnlyNode    = "the only node paired"
	toBoundNode   = "the bound node"
	deniedLeave   = "denied: set tools.exec.host, or leave host out"
	deniedElevate = "denied: set tools.exec.host, or ask for elevated"
	deniedOff     = "denied: turn the sandbox on"
	unavailable   = "unavailable: start the container engine"
)

// routeTable is the specification. A cell is a value, several of them joined
// by " or ", or * for any.
var routeTable = []struct {
	cells   [6]string
	outcome string
	reason  corral.RouteReason
}{
	// configured, requested, elevated, sandbox, required, bound node
	{[6]string{"unset", "unset", "no", "on", "*", "*"}, toSandbox, corral.RouteDefault},
	{[6]string{"unset", "sandbox", "no", "on", "*", "*"}, toSandbox, corral.RouteRequested},
	{[6]string{"sandbox", "unset or sandbox", "no", "on", "*", "*"}, toSandbox, corral.RouteConfigured},
	{[6]string{"unset or sandbox", "unset or sandbox", "no", "unreachable", "*", "*"}, unavailable, corral.RouteSandboxUnreachable},
	{[6]string{"unset or sandbox", "unset or sandbox", "*", "off", "no", "*"}, toBareGateway, corral.RouteSandboxOff},
	{[6]string{"unset or sandbox", "unset or sandbox", "*", "off", "yes", "*"}, deniedOff, corral.RouteSandboxRequired},

	{[6]string{"unset or sandbox", "unset or sandbox or gateway", "yes", "on or unreachable", "*", "*"}, toGateway, corral.RouteElevated},
	{[6]string{"unset", "gateway", "no", "on or unreachable", "*", "*"}, deniedElevate, corral.RouteNotAllowed},
	{[6]string{"unset", "gateway", "*", "off", "*", "*"}, toGateway, corral.RouteRequested},
	{[6]string{"gateway", "unset or gateway", "*", "*", "*", "*"}, toGateway, corral.RouteConfigured},

	{[6]string{"unset", "node", "*", "*", "*", "none"}, toOnlyNode, corral.RouteRequested},
	{[6]string{"unset", "node", "*", "*", "*", "bound"}, toBoundNode, corral.RouteRequested},
	{[6]string{"node", "unset or node", "*", "*", "*", "none"}, toOnlyNode, corral.RouteConfigured},
	{[6]string{"node", "unset or node", "*", "*", "*", "bound"}, toBoundNode, corral.RouteConfigured},

	{[6]string{"sandbox", "gateway", "no", "on or unreachable", "*", "*"}, deniedLeave, corral.RouteNotAllowed},
	{[6]string{"sandbox", "gateway", "*", "off", "*", "*"}, deniedLeave, corral.RouteNotAllowed},
	{[6]string{"sandbox", "node", "*", "*", "*", "*"}, deniedLeave, corral.RouteNotAllowed},
	{[6]string{"gateway", "sandbox or node", "*", "*", "*", "*"}, deniedLeave, corral.RouteNotAllowed},
	{[6]string{"node", "sandbox or gateway", "*", "*", "*", "*"}, deniedLeave, corral.RouteNotAllowed},
}

// combinations is every way to choose one value of each dimension.
func combinations() [][]string {
	all := [][]string{nil}
	for _, d := range dimensions {
		var next [][]string
		for _, c := range all {
			for _, v := range d.values {
				next = append(next, append(slices.Clone(c), v))
			}
		}
		all = next
	}
	return all
}

func matches(cells [6]string, combination []string) bool {
	for i, cell := range cells {
		if cell != "*" && !slices.Contains(strings.Split(cell, " or "), combination[i]) {
			return false
		}
	}
	return true
}

func TestRouteTableCells(t *testing.T) {
	for n, row := range routeTable {
		for i, cell := range row.cells {
			for v := range strings.SplitSeq(cell, " or ") {
				if v != "*" && !slices.Contains(dimensions[i].values, v) {
					t.Errorf("row %d: %q is no value of %s", n+1, v, dimensions[i].name)
				}
			}
		}
	}
}

func TestRouteTableCoversEveryCombinationOnce(t *testing.T) {
	all := combinations()
	if len(all) != 384 {
		t.Fatalf("%d combinations, want 384", len(all))
	}
	for _, c := range all {
		var q corral.RouteRequest
		for i, d := range dimensions {
			d.set(&q, c[i])
		}
		found := 0
		for _, row := range routeTable {
			if !matches(row.cells, c) {
				continue
			}
			found++
			route, err := corral.Resolve(q)
			if got := describe(t, q, route, err); got != row.outcome || route.Reason != row.reason {
				t.Errorf("%v: %s (%s), the table says %s (%s)", c, got, route.Reason, row.outcome, row.reason)
			}
		}
		if found != 1 {
			t.Errorf("%v is in %d rows of the table, want 1", c, found)
		}
	}
}

// describe turns a decision into the words of the table, and checks all of its fields.
func describe(t *testing.T, q corral.RouteRequest, route corral.Route, err error) string {
	t.Helper()
	if err != nil {
		if route.Host != "" || route.Node != "" || route.Sandboxed || route.Guarded || route.Notice != "" {
			t.Errorf("%+v: a route beside the error: %+v", q, route)
		}
		hint := corral.Hint(err)
		mismatch := fmt.Sprintf("host not allowed (requested %s; configured host is ", q.Requested)
		setHost := "set tools.exec.host=" + string(q.Requested)
		switch {
		case errors.Is(err, corral.ErrDenied) && strings.HasPrefix(err.Error(), mismatch) && hint == setHost+", or leave host out":
			return deniedLeave
		case errors.Is(err, corral.ErrDenied) && strings.HasPrefix(err.Error(), mismatch) && hint == setHost+", or ask for elevated":
			return deniedElevate
		case errors.Is(err, corral.ErrDenied) && strings.Contains(hint, "sandbox.mode=all"):
			return deniedOff
		case errors.Is(err, corral.ErrUnavailable) && strings.Contains(hint, "start the container engine"):
			return unavailable
		}
		return "error: " + err.Error() + " (" + hint + ")"
	}
	switch {
	case route.Host == corral.HostSandbox && route.Sandboxed && !route.Guarded && route.Notice == "":
		return toSandbox
	case route.Host == corral.HostGateway && !route.Sandboxed && route.Guarded && route.Notice == "":
		return toGateway
	case route.Host == corral.HostGateway && !route.Sandboxed && !route.Guarded && route.Notice != "":
		return toBareGateway
	case route.Host == corral.HostNode && !route.Sandboxed && route.Guarded && route.Notice == "" && route.Node == "":
		return toOnlyNode
	case route.Host == corral.HostNode && !route.Sandboxed && route.Guarded && route.Notice == "" && route.Node == q.BoundNode:
		return toBoundNode
	}
	return fmt.Sprintf("%+v", route)
}

func TestRouteTableIsDocumented(t *testing.T) {
	doctable.Table{
		File:  "docs/reference/routing.md",
		Begin: "<!-- The table is written by: go test -run RouteTable -update . -->\n",
		End:   "<!-- end of the table -->\n",
	}.Check(t, renderTable(), *update)
}

func renderTable() string {
	var b strings.Builder
	b.WriteString("\n|")
	for _, d := range dimensions {
		b.WriteString(" " + d.name + " |")
	}
	b.WriteString(" where it runs | reason |\n|" + strings.Repeat("---|", len(dimensions)+2) + "\n")
	for _, row := range routeTable {
		b.WriteString("|")
		for _, cell := range row.cells {
			b.WriteString(" " + strings.ReplaceAll(cell, "*", "\\*") + " |")
		}
		fmt.Fprintf(&b, " %s | `%s` |\n", row.outcome, row.reason)
	}
	b.WriteString("\n")
	return b.String()
}
