import type { Endpoint } from './endpoint.ts'
import { approvalRoutes } from './routes/approvals.ts'
import { attemptRoutes } from './routes/attempts.ts'
import { consumerRoutes } from './routes/consumers.ts'
import { deadLetterRoutes } from './routes/dead-letter.ts'
import { enqueueJobs } from './routes/enqueue.ts'
import { eventRoutes } from './routes/events.ts'
import { jobControlRoutes } from './routes/job-control.ts'
import { jobListRoutes } from './routes/job-list.ts'
import { jobRoutes } from './routes/jobs.ts'
import { parkedRoutes } from './routes/parked.ts'
import { runControlRoutes } from './routes/run-control.ts'
import { runStartRoutes } from './routes/run-start.ts'
import { runRoutes } from './routes/runs.ts'
import { serviceRoutes } from './routes/service.ts'
import { statsRoutes } from './routes/stats.ts'
import { taskRoutes } from './routes/tasks.ts'
import { typeRoutes } from './routes/types.ts'
import { webhookRoutes } from './routes/webhooks.ts'
import { workerProtocolRoutes } from './routes/worker-protocol.ts'
import { workerRoutes } from './routes/workers.ts'
import { workflowRoutes } from './routes/workflows.ts'

/** Every route of the API, in the order of the reference. */
export const endpoints: readonly Endpoint[] = [
  enqueueJobs,
  ...jobListRoutes,
  ...jobRoutes,
  ...jobControlRoutes,
  ...typeRoutes,
  ...statsRoutes,
  ...deadLetterRoutes,
  ...workerRoutes,
  ...workflowRoutes,
  ...runStartRoutes,
  ...runRoutes,
  ...runControlRoutes,
  ...taskRoutes,
  ...approvalRoutes,
  ...eventRoutes,
  ...consumerRoutes,
  ...parkedRoutes,
  ...webhookRoutes,
  ...workerProtocolRoutes,
  ...attemptRoutes,
  ...serviceRoutes,
]
