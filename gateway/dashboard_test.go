package gateway

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
)

// The example dashboard asks for metrics that there are.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../docs/how-to/monitoring/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	g, keys := keyRig(t)
	g.as(g.key(keys, api.NewKey{Name: "v", Role: "viewer"}), "GET", "/v1/sessions", "").is(200)
	g.server.metrics.portBytes.WithLabelValues("in").Add(0)
	there := g.do("GET", "/metrics", "").is(200).body
	names := regexp.MustCompile(`\b(corral|process|go)_[a-z_]+`)
	found := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				found++
				if !strings.Contains(there, "\n"+name) {
					t.Errorf("%s: there is no %s", target.Expr, name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("%d metrics", found)
	}
}
