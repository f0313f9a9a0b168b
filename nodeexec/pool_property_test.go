package nodeexec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// drawnPool is nodes. Some of them are in the pool and can be used.
func drawnPool(t *rapid.T) []candidate {
	var all []candidate
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		p := &peer{id: fmt.Sprintf("n%02d", i)}
		p.told.Load = fabric.Load{
			Running: rapid.IntRange(0, 50).Draw(t, "running"), CPUs: rapid.IntRange(0, 64).Draw(t, "cpus"), Average: rapid.IntRange(0, 5000).Draw(t, "average"),
		}
		c := candidate{Paired: Paired{ID: p.id}, peer: p, online: rapid.Bool().Draw(t, "online")}
		if rapid.Bool().Draw(t, "in the pool") {
			c.Labels = map[string]string{"pool": "gpu"}
		}
		if rapid.Bool().Draw(t, "of another version") {
			c.misfit = fabric.Negotiate(c.ID, fabric.Hello{Min: 9, Max: 9})
		}
		all = append(all, c)
	}
	return all
}

// Whatever is drawn, the node is one of the pool that can be used and was not
// tried, and of the two that were drawn it is not the busier one.
func TestPoolMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawnPool(t)
		var good, tried []string
		for _, c := range all {
			if c.counts() && c.Labels["pool"] == "gpu" {
				if rapid.IntRange(0, 3).Draw(t, "tried") == 0 {
					tried = append(tried, c.ID)
					continue
				}
				good = append(good, c.ID)
			}
		}
		var drawn []int
		got, err := pick(all, "pool:gpu", tried, func(n int) int {
			drawn = append(drawn, rapid.IntRange(0, n-1).Draw(t, "draw"))
			return drawn[len(drawn)-1]
		})
		if len(good) == 0 {
			if err == nil {
				t.Fatalf("chose %s", got.ID)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		two := []string{good[drawn[0]]}
		if len(good) > 1 {
			i := drawn[1]
			if i >= drawn[0] {
				i++
			}
			if two = append(two, good[i]); two[0] == two[1] {
				t.Fatalf("drew %s twice", two[0])
			}
		}
		chosen := false
		for _, id := range two {
			chosen = chosen || got.ID == id
			for _, c := range all {
				if c.ID == id && c.peer.load() < got.peer.load() {
					t.Fatalf("chose %s with %d, of which %s has %d", got.ID, got.peer.load(), id, c.peer.load())
				}
			}
		}
		if !chosen {
			t.Fatalf("chose %s of %v", got.ID, two)
		}
	})
}

// begunAt has commands begin on nodes with so many processors, which say nothing
// meanwhile, and returns how many each has.
func begunAt(t *rapid.T, cpus []int, commands int) []int {
	draws := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	var all []candidate
	at := map[string]int{}
	for i, n := range cpus {
		p := &peer{id: fmt.Sprintf("n%02d", i), changed: make(chan struct{})}
		p.storeHello(fabric.Hello{Min: 1, Max: 1, Boot: "a", Load: fabric.Load{CPUs: n}})
		all = append(all, candidate{Paired: Paired{ID: p.id, Labels: map[string]string{"pool": "gpu"}}, peer: p, online: true})
		at[p.id] = i
	}
	begun := make([]int, len(cpus))
	for range commands {
		c, err := pick(all, "pool:gpu", nil, draws.IntN)
		if err != nil {
			t.Fatal(err)
		}
		done := c.peer.begin()
		done(true)
		begun[at[c.ID]]++
	}
	return begun
}

// Commands spread also while no node says anything.
func TestPoolBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, each := rapid.IntRange(2, 12).Draw(t, "nodes"), rapid.IntRange(1, 100).Draw(t, "commands for each")
		for i, n := range begunAt(t, slices.Repeat([]int{rapid.IntRange(1, 64).Draw(t, "cpus")}, nodes), nodes*each) {
			if n > each+6 { // with one draw, more than twice the square root of each
				t.Errorf("node %d of %d has %d commands, and its share is %d", i, nodes, n, each)
			}
		}
	})
}

// With two nodes both are always drawn: each gets a share by its processors.
func TestPoolProcessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfN(rapid.IntRange(1, 64), 2, 2).Draw(t, "cpus")
		each := rapid.IntRange(1, 20).Draw(t, "commands for each processor")
		for i, n := range begunAt(t, cpus, (cpus[0]+cpus[1])*each) {
			if due := each * cpus[i]; n > due+2 {
				t.Errorf("node %d of %v processors has %d commands, and %d are due to it", i, cpus, n, due)
			}
		}
	})
}
