package reproduce

import (
	"context"

	"github.com/globalfs/globalfs/bench/micro"
)

func globalfsPaper() paper {
	return paper{
		name: "globalfs", title: "GlobalFS (thesis \"Scaling Strongly Consistent Replicated Systems\", chapter 3)",
		method: "Whole replicas of the product in virtual time, with the CPU times of server processes and mounts; no caches of clients, each change ordered. Durability os.",
		run:    runGlobalfs,
	}
}

func runGlobalfs(ctx context.Context, j *job) error {
	c := micro.Default()
	c.Progress = j.progress
	if j.Quick {
		c.Quick()
	}
	r, err := micro.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	j.throughputs(r)
	j.halfLoad(r)
	j.regions(r)
	return j.compilations()
}

// throughputs checks Figure 3.4. The thesis' text gives throughputs as multiples of CalvinFS.
func (j *job) throughputs(r *micro.Report) {
	rate := func(operation string, part float64) float64 { return r.Find(operation, part).PerSecond }
	read, write, create, content := rate(micro.Read, 0), rate(micro.Write, 0), rate(micro.Create, 0), rate(micro.CreateWrite, 0)
	j.check("Figure 3.4, local", "reads have the highest throughput, then creations, and those with content the lowest",
		read > write && create > content && write > content, "",
		"operations/s in 3 regions: read %.0f, write %.0f, create %.0f, create 1 KB %.0f", read, write, create, content)
	j.check("Figure 3.4, global reads", "global reads are as fast as local ones: any replica answers", rate(micro.Read, 1) > 0.8*read,
		"The global partition has one replica in each region, beside three of the region's own. The thesis replicates it on all servers.",
		"global reads %.0f/s, local %.0f/s", rate(micro.Read, 1), read)
	if j.Quick { // too few clients for the highest throughput of a distance
		return
	}
	fewer := "In the thesis a global change goes through a ring of all servers, and all of them execute it. Here one replica for each region orders and executes it. Creating a file with 1 KB takes two commands, not three."
	ratio := write / rate(micro.Write, 1)
	j.check("Figure 3.4, writes", "local writes are 10 times global ones (6 times CalvinFS, and 1/1.7 of it)", ratio > 5 && ratio < 20, fewer,
		"%.1f times: %.0f and %.0f/s", ratio, write, rate(micro.Write, 1))
	ratio = content / rate(micro.CreateWrite, 1)
	j.check("Figure 3.4, creation with 1 KB", "local ones are 22 times global ones (14.5 times CalvinFS, and 1/1.5 of it)", ratio > 11 && ratio < 44, fewer,
		"%.1f times: %.0f and %.0f/s", ratio, content, rate(micro.CreateWrite, 1))
	first, last := r.Mixes[0], r.Mixes[len(r.Mixes)-1]
	half := r.Mixes[len(r.Mixes)-2]
	j.check("Figure 3.4, mixes", "the global partition does not scale: the throughput falls with the part of global changes",
		half.PerSecond < first.PerSecond && last.PerSecond < first.PerSecond/2, "",
		"creations/s: all local %.0f, %.0f %% global %.0f, all global %.0f", first.PerSecond, 100*half.Global, half.PerSecond, last.PerSecond)
}

// halfLoad checks Figure 3.5.
func (j *job) halfLoad(r *micro.Report) {
	longest, shortest := 0.0, 1e9 // of local changes and of global ones
	for _, operation := range []string{micro.Write, micro.Create, micro.CreateWrite} {
		longest, shortest = max(longest, r.Find(operation, 0).Mean), min(shortest, r.Find(operation, 1).Mean)
	}
	local, global := r.Find(micro.Read, 0).Mean, r.Find(micro.Read, 1).Mean
	j.check("Figure 3.5, groups", "three groups: reads, local changes, global changes", max(local, global) < r.Find(micro.Write, 0).Mean && longest < shortest/5, "",
		"means: reads %.1f ms, local changes up to %.1f ms, global ones from %.0f ms on", max(local, global), longest, shortest)
	j.check("Figure 3.5, reads", "reads take 3.5 ms", local < 3.5 && global < 3.5, "", "%.1f ms local, %.1f ms global", local, global)
	j.check("Figure 3.5, local changes", "local writes and creations take 20 to 40 ms", longest < 40, "", "%.1f ms for a write, at most %.1f ms", r.Find(micro.Write, 0).Mean, longest)
	write := r.Find(micro.Write, 1).Mean
	j.check("Figure 3.5, global changes", "global writes and creations of empty files take 300 ms", write < 300 && r.Find(micro.Create, 1).Mean < 300, "",
		"write %.0f ms, create %.0f ms", write, r.Find(micro.Create, 1).Mean)
}

// regions checks Figure 3.6.
func (j *job) regions(r *micro.Report) {
	least, growth, reads := 1e9, 0.0, 0.0
	alone := map[string]float64{}
	regions := 0
	for _, s := range r.Scale {
		least, regions = min(least, s.Ratio), max(regions, s.Regions)
		if alone[s.Operation] == 0 {
			alone[s.Operation] = s.P95
		}
		grown := s.P95 / alone[s.Operation]
		if s.Operation == micro.Read {
			reads = max(reads, grown)
		} else {
			growth = max(growth, grown)
		}
	}
	goal := 0.98
	if j.Quick { // short windows hold few operations
		goal = 0.95
	}
	j.check("Figure 3.6, throughput", "local work scales almost perfectly; creations fall to 0.8 with 9 regions. Goal: 0.98", least >= goal,
		"The least of all operations and numbers of regions.", "at least %.3f of a region alone, with up to %d regions", least, regions)
	part := 1e9 // of processes
	for i := 1; i < len(r.Processes); i += 2 {
		part = min(part, r.Processes[i].PerSecond/r.Processes[i-1].PerSecond)
	}
	j.check("Figure 3.6, 1 and 2 regions on processes", "local work scales almost perfectly; creations fall to 0.8 with 9 regions", part >= 0.8,
		"The machine was loaded.", "beside a second region without load at least %.2f of a region alone (a loaded machine of two cores, no distance)", part)
	j.check("Figure 3.6, latency of reads", "more regions do not change it", reads < 1.1, "", "95th percentile: at most %.2f times that of a region alone", reads)
	if j.Quick {
		return
	}
	j.check("Figure 3.6, latency of changes", "it grows from 1 to 3 regions, since rings of groups wait for the global ring", growth > 1.25,
		"Local orders wait for no other region (classes of PrimCast), so the latency stays.", "95th percentile: at most %.2f times that of a region alone", growth)
}
