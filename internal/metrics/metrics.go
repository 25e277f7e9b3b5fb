// Package metrics exports the measurements of a process to Prometheus: the table of all names, and
// an HTTP handler that collects the values of the process' parts at each scrape. Parts keep their own counts;
// nothing is counted twice.
package metrics

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Report collects the values of a source.
type Report struct {
	gatherer *gatherer
	out      chan<- prometheus.Metric
	values   map[string]*sample // by name and labels
}

// sample is a value of a scrape.
type sample struct {
	name   Name
	labels []string
	value  float64
}

// Value adds one value; labels are those of the name, in the order of the table. Several servers in one
// process may add it with the same labels, after each of them has led a partition: then a counter is the sum
// of the values, a gauge the highest.
func (r Report) Value(name Name, value float64, labels ...string) {
	key := fmt.Sprintf("%d %q", name, labels)
	was := r.values[key]
	switch {
	case was == nil:
		r.values[key] = &sample{name, labels, value}
	case definitions[name].kind == counter:
		was.value += value
	default:
		was.value = max(was.value, value)
	}
}

// end outputs the collected values.
func (r Report) end() {
	for _, s := range r.values {
		kind := prometheus.GaugeValue
		if definitions[s.name].kind == counter {
			kind = prometheus.CounterValue
		}
		m, err := prometheus.NewConstMetric(r.gatherer.descriptions[s.name], kind, s.value, s.labels...)
		r.output(s.name, m, err)
	}
}

// Durations outputs a histogram, if it is not empty.
func (r Report) Durations(name Name, d *Durations, labels ...string) {
	m, err := d.metric(r.gatherer.descriptions[name], labels)
	r.output(name, m, err)
}

func (r Report) output(name Name, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(r.gatherer.descriptions[name], err)
	}
	if m != nil {
		r.out <- m
	}
}

// Source adds all values of one part of the process. It is called at each scrape, by one goroutine at a time
// for each scrape, and should be quick: a second at most.
type Source func(report Report)

// Set is the sources of a process. The zero value has none.
type Set struct {
	mu      sync.Mutex
	sources []Source // GUARDED_BY mu
}

// Add adds a source.
func (s *Set) Add(source Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, source)
}

// Report adds the values of all sources: it makes the set a Source.
func (s *Set) Report(report Report) {
	s.mu.Lock()
	sources := s.sources
	s.mu.Unlock()
	for _, source := range sources {
		source(report)
	}
}

// Handler answers scrapes.
func (s *Set) Handler() http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newGatherer(s))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// gatherer adapts the set to Prometheus' library.
type gatherer struct {
	set          *Set
	descriptions [namesEnd]*prometheus.Desc
}

func newGatherer(s *Set) *gatherer {
	g := &gatherer{set: s}
	for n, d := range definitions {
		g.descriptions[n] = prometheus.NewDesc(d.name, d.help, d.labels, nil)
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *gatherer) Describe(out chan<- *prometheus.Desc) {
	for _, d := range g.descriptions {
		out <- d
	}
}

// Collect implements prometheus.Collector. An invalid value of a source (other labels than in the table) is
// an error of the scrape.
func (g *gatherer) Collect(out chan<- prometheus.Metric) {
	report := Report{gatherer: g, out: out, values: map[string]*sample{}}
	g.set.Report(report)
	report.end()
}
