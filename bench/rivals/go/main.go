// Engines of others that are written in Go, driven as bench/rivals/README.md says: a flow, then a turn
// for each line of standard input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

const name = "geseq/orderbook 88e8098"

// Turns that nobody sees.
const warmUp = 2

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rivals-go FLOW")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(path string) error {
	// Its CPU time is that of one thread, so it must stay on one.
	runtime.LockOSThread()
	flow, err := readFlow(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	trades := newTrades()
	for range warmUp {
		run(flow, trades)
	}
	fmt.Printf("{\"engines\": [%q]}\n", name)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch line := lines.Text(); line {
		case "run 0":
			nanoseconds := run(flow, trades)
			fmt.Printf("{\"ns_per_op\": %f, \"trades\": %d, \"quantity\": %d, \"hash\": \"%016x\"}\n",
				float64(nanoseconds)/float64(max(len(flow.measured()), 1)),
				len(trades.list), trades.quantity(), trades.hash())
		case "latency 0":
			fmt.Println(latency(flow, trades))
		default:
			return fmt.Errorf("cannot do %q; it is run 0 or latency 0", line)
		}
	}
	return lines.Err()
}

// The whole flow; what the prefill costs is not measured.
func run(flow *flow, trades *trades) int64 {
	engine := prepared(flow, trades)
	measured := flow.measured()
	started := threadCPU()
	for index := range measured {
		engine.apply(&measured[index])
	}
	return threadCPU() - started
}

func latency(flow *flow, trades *trades) string {
	engine := prepared(flow, trades)
	measured := flow.measured()
	times := make([]int64, len(measured))
	for index := range measured {
		started := time.Now()
		engine.apply(&measured[index])
		times[index] = time.Since(started).Nanoseconds()
	}
	slices.Sort(times)
	at := func(part float64) int64 {
		if len(times) == 0 {
			return 0
		}
		return times[min(int(float64(len(times))*part), len(times)-1)]
	}
	return fmt.Sprintf("{\"p50\": %d, \"p99\": %d, \"p999\": %d, \"max\": %d}",
		at(0.5), at(0.99), at(0.999), at(1))
}

func prepared(flow *flow, trades *trades) *engine {
	trades.list = trades.list[:0]
	engine := newEngine(flow, trades)
	for index := range flow.operations[:flow.prefill] {
		engine.apply(&flow.operations[index])
	}
	// What earlier turns left behind is not this turn's to collect.
	runtime.GC()
	return engine
}
