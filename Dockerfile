# The command `fencepost` with what it needs at run time: no compiler, no embedded server.
FROM node:24-bookworm-slim AS build
WORKDIR /fencepost
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY . .
# The example's data is a development dependency, and stays.
RUN npm run build && cp -r node_modules/@observablehq /data && npm prune --omit=dev --ignore-scripts \
  && cp -r /data node_modules/@observablehq
# The client of Kafka is an optional peer: beside the package, where Node looks after the package's own modules.
WORKDIR /peers
RUN npm install --ignore-scripts --no-audit --no-fund \
  "@platformatic/kafka@$(node -p "require('/fencepost/package.json').devDependencies['@platformatic/kafka']")"

FROM node:24-bookworm-slim
WORKDIR /fencepost
ENV NODE_ENV=production
COPY --from=build /fencepost/package.json ./
COPY --from=build /peers/node_modules /node_modules
COPY --from=build /fencepost/node_modules ./node_modules
COPY --from=build /fencepost/dist ./dist
COPY --from=build /fencepost/migrations/committed ./migrations/committed
USER node
EXPOSE 3773
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["serve"]
