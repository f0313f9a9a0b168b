//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// A report is everything that was measured; it is what -json writes.
type report struct {
	Began   time.Time `json:"began"`
	Machine machine   `json:"machine"`
	Quick   bool      `json:"quick,omitempty"` // too few values to conclude anything from
	Results []result  `json:"results"`
	Memory  []memory  `json:"memory,omitempty"`
	Checks  []outcome `json:"checks"`
}

type result struct {
	Name   string      `json:"name"`
	Title  string      `json:"title"`
	Unit   string      `json:"unit"`
	Rounds int         `json:"rounds"`
	Places []placeData `json:"places"`
}

type placeData struct {
	Place string `json:"place"`
	summary
}

// An outcome is what became of a check.
type outcome struct {
	Result string  `json:"result"` // the name of its result
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	// Low and High are the quartiles of the rounds: how much the machine's
	// noise moves the value.
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
	Unit   string  `json:"unit"`
	Target string  `json:"target,omitempty"`
	Pass   *bool   `json:"pass,omitempty"` // nil without a target
}

func (r *report) add(x experiment, values map[string][][]float64) {
	res := result{Name: x.name, Title: x.title, Unit: x.unit, Rounds: x.rounds}
	for _, p := range x.places {
		res.Places = append(res.Places, placeData{p.name, summarize(slices.Concat(values[p.name]...))})
	}
	r.Results = append(r.Results, res)
	for _, c := range x.checks {
		compare, what, unit := ratio, c.over+" / "+c.under, "×"
		if c.added {
			compare, what, unit = difference, c.over+" − "+c.under, x.unit
		}
		list := paired(values[c.over], values[c.under], compare)
		if c.under == "" {
			what, unit, list = c.over, x.unit, medians(values[c.over])
		}
		rounds := slices.Sorted(slices.Values(list))
		if len(rounds) == 0 {
			continue
		}
		r.Checks = append(r.Checks, c.outcome(x.name, what, unit, median(rounds), quantile(rounds, 0.25), quantile(rounds, 0.75)))
	}
}

func (c check) outcome(result, what, unit string, value, low, high float64) outcome {
	o := outcome{Result: result, What: what, Unit: unit, Value: value, Low: low, High: high}
	pass := false
	switch {
	case c.atMost > 0:
		o.Target, pass = fmt.Sprintf("≤ %g", c.atMost), value <= c.atMost
	case c.atLeast > 0:
		o.Target, pass = fmt.Sprintf("≥ %g", c.atLeast), value >= c.atLeast
	default:
		return o
	}
	o.Pass = &pass
	return o
}

// maxResident is what a warden may need, in MB.
const maxResident = 6

func (r *report) addMemory(all []memory) {
	r.Memory = all
	for _, m := range all {
		r.Checks = append(r.Checks, check{atMost: maxResident}.outcome("memory", "warden of "+m.Place+", resident", "MB", m.Resident, 0, 0))
	}
}

// idleSessions, and how much more memory a gateway may need for them, in MB.
const (
	idleSessions = 1000
	maxIdle      = 50
)

func (r *report) addIdle(sessions int, mb float64) {
	r.Checks = append(r.Checks, check{atMost: maxIdle}.outcome("memory", fmt.Sprintf("gateway, %d idle sessions", sessions), "MB", mb, 0, 0))
}

// table prints the report for people.
func (r *report) table(out io.Writer) error {
	fmt.Fprintf(out, "%s\n", r.Machine)
	if r.Quick {
		fmt.Fprintln(out, "quick: too few values to conclude anything from")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, res := range r.Results {
		fmt.Fprintf(w, "\n%s, in %s\t", res.Title, res.Unit)
		fmt.Fprint(w, "p50\tp99\tmin\tn\t\n")
		for _, p := range res.Places {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t\n", p.Place, digits(p.P50), digits(p.P99), digits(p.Min), p.N)
		}
	}
	if len(r.Memory) > 0 {
		fmt.Fprint(w, "\nmemory of an idle warden, in MB\tresident\tprivate\twhole sandbox\t\t\n")
		for _, m := range r.Memory {
			box := "-"
			if m.Sandbox > 0 {
				box = digits(m.Sandbox)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\t\n", m.Place, digits(m.Resident), digits(m.Private), box)
		}
	}
	fmt.Fprint(w, "\nmedian of the rounds: ratios, differences and values\t\tquartiles\ttarget\t\t\n")
	for _, o := range r.Checks {
		spread := "-"
		if o.Low != 0 || o.High != 0 {
			spread = digits(o.Low) + "–" + digits(o.High)
		}
		verdict := ""
		switch {
		case o.Pass == nil:
		case *o.Pass:
			verdict = "pass"
		default:
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s: %s\t%s %s\t%s\t%s\t%s\t\n", o.Result, o.What, digits(o.Value), o.Unit, spread, o.Target, verdict)
	}
	return w.Flush()
}

// digits prints three significant ones.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	return fmt.Sprintf("%.*f", places, v)
}
