package programs

import (
	"slices"
	"strings"
)

// TableRows is how many rows the tables of carriers and of wrappers have.
func TableRows() int { return len(carrierTable) + len(gitTable) + len(wrapperNames()) }

func wrapperNames() []string {
	var names []string
	for name := range wrappers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// WithoutRow is for tests of what stops a command that the tables are wrong about:
// while f runs, row i is not there. programs are those that it is about.
func WithoutRow(i int, f func(row string, programs []string)) {
	rows := slices.Concat(carrierTable, gitTable)
	if i < len(rows) {
		row := rows[i]
		carriersMade()
		defer func() { makeCarriers(slices.Concat(carrierTable, gitTable)) }()
		makeCarriers(slices.Delete(rows, i, i+1))
		var programs []string
		for names := range strings.SplitSeq(row.programs, ",") {
			programs = append(programs, strings.Fields(names)[0])
		}
		f(row.programs+": "+row.options, programs)
		return
	}
	name := wrapperNames()[i-len(rows)]
	old := wrappers[name]
	delete(wrappers, name)
	defer func() { wrappers[name] = old }()
	f(name, strings.Fields(name)[:1])
}
